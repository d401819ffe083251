package activities

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/images"
	"github.com/spool-agents/spool/internal/tool"
)

// mostImages bounds the images of one model call, in bytes: providers take requests
// of 30 MB and more, in which three bytes of an image take four.
const mostImages = 20 << 20

// withImages puts the images in place that messages refer to, for the time of a
// call. One that cannot be had is named to the model in words: a turn must not fail
// because an image is gone. So is one that no longer fits, the oldest first. A
// store that is away is an error: it will be back, and the model is not to answer
// without what it was asked about.
func (a *Activities) withImages(ctx context.Context, messages []agent.Message, run agent.ToolRun) ([]agent.Message, error) {
	left := mostImages
	for i := len(messages) - 1; i >= 0; i-- {
		if !slices.ContainsFunc(messages[i].Content.Parts, refers) {
			continue
		}
		parts := slices.Clone(messages[i].Content.Parts)
		for k := len(parts) - 1; k >= 0; k-- {
			if !refers(parts[k]) {
				continue
			}
			data, name, err := a.image(ctx, parts[k].ImageURL.URL, run)
			if err == nil && len(data) > left {
				left, err = 0, fmt.Errorf("the images of the conversation have more than %d MB, and newer ones come first", mostImages>>20)
			}
			switch agent.CodeOf(err) {
			case "":
				left -= len(data)
				url := "data:" + agent.ImageType(name) + ";base64," + base64.StdEncoding.EncodeToString(data)
				parts[k].ImageURL = &agent.ImageURL{URL: url, Detail: parts[k].ImageURL.Detail}
			case agent.CodeUnavailable:
				return nil, err
			default:
				parts[k] = agent.Part{Type: "text", Text: fmt.Sprintf("[an image cannot be shown: %v]", err)}
			}
		}
		messages[i].Content.Parts = parts
	}
	return messages, nil
}

// keeper is agent.ToolRun.Keep: an image is kept in the store, so that models can be
// shown it, all else as a file that a person can open.
func (a *Activities) keeper(ctx context.Context) func(what, kind string, data []byte) string {
	return func(what, kind string, data []byte) string {
		name, err := a.keepImage(ctx, data)
		if err == nil {
			return agent.ToolImage(name, len(data))
		}
		what, kind = agent.CleanText(what), agent.CleanText(kind)
		if agent.CodeOf(err) == agent.CodeInvalid {
			if a.Files == "" {
				return agent.ToolRun{}.Attach(what, kind, data)
			}
			name, err = images.KeepFile(a.Files, kind, data)
		}
		if err != nil {
			return fmt.Sprintf("[%s, %s, %d bytes: it could not be kept: %v]", what, kind, len(data), err)
		}
		return fmt.Sprintf("[%s, %s, %d bytes, kept as %s]", what, kind, len(data), filepath.Join(a.Files, name))
	}
}

// keepImage waits for a store that is away: the tool has run.
func (a *Activities) keepImage(ctx context.Context, data []byte) (string, error) {
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		name, err := a.Store.KeepImage(ctx, data)
		if agent.CodeOf(err) != agent.CodeUnavailable || ctx.Err() != nil {
			return name, err
		}
		time.Sleep(delay)
	}
}

func refers(p agent.Part) bool {
	return p.ImageURL != nil && (strings.HasPrefix(p.ImageURL.URL, agent.ImageScheme) || strings.HasPrefix(p.ImageURL.URL, agent.FileScheme))
}

// image reads an image, and tells its name if it were kept.
func (a *Activities) image(ctx context.Context, url string, run agent.ToolRun) (data []byte, name string, err error) {
	if name, kept := strings.CutPrefix(url, agent.ImageScheme); kept {
		data, err = a.Store.Image(ctx, name)
		if agent.CodeOf(err) == agent.CodeNotFound {
			err = agent.Errorf(agent.CodeNotFound, "it is not kept any more")
		}
		return data, name, err
	}
	path := strings.TrimPrefix(strings.TrimPrefix(url, agent.FileScheme), "//")
	if data, err = tool.ReadFile(run, path, agent.MaxImage); err != nil {
		return nil, "", agent.Errorf(agent.CodeInvalid, "%s", agent.CleanText(err.Error()))
	}
	if name, err = agent.ImageName(data); err != nil {
		return nil, "", agent.Wrap(err, agent.CodeInvalid, "%s", agent.CleanText(path))
	}
	return data, name, nil
}
