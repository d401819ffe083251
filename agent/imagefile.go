package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"
)

const (
	// MaxImage bounds an image, in bytes: providers take 5 to 20 MB.
	MaxImage = 10 << 20
	// maxPixels bounds what whoever shows the image needs for it: four bytes each. A
	// file of some KB can ask for terabytes.
	maxPixels = 64 << 20
)

type imageKind struct {
	ending, mediaType string
	begins            string
	// size reads the header, and only that: no pixel is decoded.
	size func(data []byte) (image.Config, error)
	// ends is what a whole file has near its end; what programs append behind it
	// does no harm.
	ends string
}

var imageKinds = []imageKind{
	{ending: "png", mediaType: "image/png", begins: "\x89PNG\r\n\x1a\n", ends: "IEND", size: header(png.DecodeConfig)},
	{ending: "jpg", mediaType: "image/jpeg", begins: "\xff\xd8\xff", ends: "\xff\xd9", size: header(jpeg.DecodeConfig)},
	{ending: "gif", mediaType: "image/gif", begins: "GIF8", ends: ";", size: header(gif.DecodeConfig)},
	{ending: "webp", mediaType: "image/webp", begins: "RIFF", size: webpSize},
}

// ImageName is the name under which an image is kept: it tells the content and the
// kind. What models do not take is CodeInvalid: other kinds, SVG among them, and
// images that are too big, cut off, or far bigger when they are shown.
func ImageName(data []byte) (string, error) {
	if len(data) > MaxImage {
		return "", Errorf(CodeInvalid, "the image is too big: it has %d MB, at most %d MB are possible; make it smaller, models see no more of it", len(data)>>20, MaxImage>>20)
	}
	for _, k := range imageKinds {
		if !bytes.HasPrefix(data, []byte(k.begins)) {
			continue
		}
		size, err := k.size(data)
		switch {
		case err != nil, size.Width < 1, size.Height < 1, !bytes.Contains(data, []byte(k.ends)):
			return "", Errorf(CodeInvalid, "the image is damaged or cut off: it begins as %s and cannot be read as one", strings.ToUpper(k.ending))
		case int64(size.Width)*int64(size.Height) > maxPixels:
			return "", Errorf(CodeInvalid, "the image has %d × %d pixels, at most %d million are possible: make it smaller, models see no more of it", size.Width, size.Height, maxPixels>>20)
		}
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:]) + "." + k.ending, nil
	}
	return "", Errorf(CodeInvalid, "it is no PNG, JPEG, GIF or WebP image, which is what models take")
}

// ImageType is the media type of an image, by its name; "" if that is not one.
func ImageType(name string) string {
	for _, k := range imageKinds {
		if strings.HasSuffix(name, "."+k.ending) {
			return k.mediaType
		}
	}
	return ""
}

func header(decode func(io.Reader) (image.Config, error)) func([]byte) (image.Config, error) {
	return func(data []byte) (image.Config, error) { return decode(bytes.NewReader(data)) }
}

// webpSize reads the three headers that WebP has.
func webpSize(data []byte) (image.Config, error) {
	var c image.Config
	if len(data) < 30 || string(data[8:12]) != "WEBP" || int64(binary.LittleEndian.Uint32(data[4:]))+8 > int64(len(data)) {
		return c, image.ErrFormat
	}
	b := data[20:]
	switch string(data[12:16]) {
	case "VP8X":
		c.Width = 1 + (int(b[4]) | int(b[5])<<8 | int(b[6])<<16)
		c.Height = 1 + (int(b[7]) | int(b[8])<<8 | int(b[9])<<16)
	case "VP8L":
		bits := binary.LittleEndian.Uint32(b[1:])
		c.Width, c.Height = 1+int(bits&0x3fff), 1+int(bits>>14&0x3fff)
	case "VP8 ":
		c.Width, c.Height = int(binary.LittleEndian.Uint16(b[6:])&0x3fff), int(binary.LittleEndian.Uint16(b[8:])&0x3fff)
	default:
		return c, image.ErrFormat
	}
	return c, nil
}
