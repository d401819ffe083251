package memory

import "context"

// Imager keeps the images that messages refer to as image:NAME, by their content.
// An image stays while a thread refers to it. One that no message uses within a day
// is removed. Safe for concurrent use.
type Imager interface {
	// KeepImage keeps an image and returns its name, the same for the same bytes.
	// What agent.ImageName refuses is CodeInvalid. Keep an image before the message
	// is sent that shows it.
	KeepImage(ctx context.Context, data []byte) (name string, err error)
	// Image returns the bytes of a kept image, or CodeNotFound. Who knows its name may
	// have it: the name is a digest of the content.
	Image(ctx context.Context, name string) ([]byte, error)
}
