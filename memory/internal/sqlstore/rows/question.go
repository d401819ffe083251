package rows

import "strings"

// QuestionID is the id of the one question that a call can ask.
func QuestionID(callID string) string { return "ques_" + strings.TrimPrefix(callID, "call_") }
