package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// webp is a picture of one pixel in each of the three forms.
func webp(t *testing.T, form string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(map[string]string{
		"VP8 ": "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA",
		"VP8L": "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==",
	}[form])
	require.NoError(t, err)
	if form == "VP8X" {
		data = append([]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00"), 1, 0, 0, 2, 0, 0)
	}
	return data
}

func TestImagesHaveNames(t *testing.T) {
	pixel := image.NewPaletted(image.Rect(0, 0, 3, 2), []color.Color{color.White, color.Black})
	var asPNG, asJPEG, asGIF bytes.Buffer
	require.NoError(t, png.Encode(&asPNG, pixel))
	require.NoError(t, jpeg.Encode(&asJPEG, pixel, nil))
	require.NoError(t, gif.Encode(&asGIF, pixel, nil))
	for _, c := range []struct {
		ending, mediaType string
		data              []byte
	}{
		{"png", "image/png", asPNG.Bytes()},
		{"jpg", "image/jpeg", asJPEG.Bytes()},
		{"jpg", "image/jpeg", append(asJPEG.Bytes(), "what a phone appends"...)},
		{"gif", "image/gif", asGIF.Bytes()},
		{"webp", "image/webp", webp(t, "VP8 ")},
		{"webp", "image/webp", webp(t, "VP8L")},
		{"webp", "image/webp", webp(t, "VP8X")},
	} {
		name, err := ImageName(c.data)
		require.NoError(t, err, c.ending)
		require.True(t, CheckImageName(name), name)
		require.True(t, strings.HasSuffix(name, "."+c.ending), name)
		require.Equal(t, c.mediaType, ImageType(name))
		for cut := range 40 {
			if cut < len(c.data) {
				_, err := ImageName(c.data[:cut])
				require.Equal(t, CodeInvalid, CodeOf(err), "%s of %d bytes", c.ending, cut)
			}
		}
	}
	require.Empty(t, ImageType("x.svg"))
}

// A file of 60 bytes that asks for 16 GB when it is shown.
func TestImagesThatAreNotTaken(t *testing.T) {
	bomb := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\xf0\x00\x00\x01\x00\x00\x08\x06\x00\x00\x00")
	bomb = binary.BigEndian.AppendUint32(bomb, crc32.ChecksumIEEE(bomb[12:]))
	bomb = append(bomb, "\x00\x00\x00\x00IEND\xae\x42\x60\x82"...)
	for says, data := range map[string][]byte{
		"61440 × 65536 pixels": bomb,
		"no PNG":               []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`),
		"damaged or cut off":   []byte("\x89PNG\r\n\x1a\nrest IEND"),
		"too big":              append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, MaxImage)...),
		"which is what models": nil,
	} {
		_, err := ImageName(data)
		require.ErrorContains(t, err, says)
		require.Equal(t, CodeInvalid, CodeOf(err))
	}
}

func TestImagesInTexts(t *testing.T) {
	a, b := strings.Repeat("a", 64)+".png", strings.Repeat("b", 64)+".webp"
	require.Equal(t, []string{a, b}, ImagesIn(`{"url":"image:`+b+`"} \"image:`+a+`\" image:`+a))
	require.Empty(t, ImagesIn("image:none.png image:"+a[:60]+" "+a))
	c := Content{Parts: []Part{{Type: "text", Text: "image:" + b}, {Type: "image_url", ImageURL: &ImageURL{URL: "image:" + a}}, {Type: "image_url", ImageURL: &ImageURL{URL: "https://x/y.png"}}}}
	require.Equal(t, []string{a}, c.Images())
	for range MaxImages {
		c.Parts = append(c.Parts, c.Parts[1])
	}
	require.ErrorContains(t, CheckContent(c), "has 22 images, at most 20")
}
