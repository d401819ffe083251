package rows

// TopicLength is how much of its first message a conversation is named by.
const TopicLength = 80
