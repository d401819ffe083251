package openai

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// Each server says in its own words that a model takes no images.
func TestFault_A_ImagesRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
	}{
		{"OpenAI", 400, `{"error":{"message":"Invalid content type. image_url is only supported by certain models.","type":"invalid_request_error","param":"messages.[0].content.[1].type","code":null}}`},
		{"OpenAI, newer", 400, `{"error":{"message":"Invalid content type: image URLs are only supported by certain models.","type":"invalid_request_error"}}`},
		{"DeepSeek", 400, `{"error":{"message":"Failed to deserialize the JSON body into the target type: messages[7]: unknown variant ` + "`image_url`, expected `text`" + ` at line 1 column 114708","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`},
		{"DeepSeek, older", 422, `Failed to deserialize the JSON body into the target type: messages[2]: invalid type: sequence, expected a string at line 1 column 2901`},
		{"DeepSeek, in between", 422, `Failed to deserialize the JSON body into the target type: messages[1]: data did not match any variant of untagged enum ChatCompletionRequestContent at line 1 column 18231`},
		{"OpenRouter", 404, `{"error":{"message":"No endpoints found that support image input","code":404}}`},
		{"Xiaomi", 404, `{"error":{"code":"404","message":"No endpoints found that support image input","param":"","type":""}}`},
		{"vLLM", 400, `{"object":"error","message":"DeepSeek-V4-Flash-0731 is not a multimodal model","type":"BadRequestError","param":null,"code":400}`},
		{"vLLM, nested", 400, `{"error":{"message":"qwen3 is not a multimodal model None","type":"BadRequestError","param":null,"code":400}}`},
		{"vLLM, limit 0", 400, `{"object":"error","message":"At most 0 image(s) may be provided in one prompt.","type":"BadRequestError","code":400}`},
		{"llama.cpp", 500, `{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}`},
		{"llama.cpp, older", 500, `{"code":500,"message":"image input is not supported by this server","type":"server_error"}`},
		{"Ollama", 500, `{"error":{"message":"this model is missing data required for image input","type":"api_error","param":null,"code":null}}`},
		{"Ollama, newer", 400, `{"error":"this model is missing data required for image input"}`},
		{"LM Studio", 400, `{"error":"Model does not support images. Please use a model that does."}`},
		{"Groq", 400, `{"error":{"message":"messages[0].content must be a string","type":"invalid_request_error"}}`},
		{"Groq, newer", 400, `{"error":{"message":"'messages.0' : for 'role:user' the following must be satisfied[('messages.0.content' : value must be a string)]","type":"invalid_request_error"}}`},
		{"Mistral", 400, `{"object":"error","message":"Image input is not enabled for this model","type":"invalid_request_invalid_args","param":null,"code":"3051"}`},
		{"Pydantic (Mistral, FastAPI)", 422, `{"detail":[{"type":"string_type","loc":["body","messages",1,"user","content"],"msg":"Input should be a valid string","input":[{"type":"text"}]}]}`},
		{"Gemini", 400, `[{"error":{"code":400,"message":"Image input modality is not enabled for models/gemma-3-1b-it","status":"INVALID_ARGUMENT"}}]`},
		{"Anthropic", 400, `{"error":{"type":"invalid_request_error","message":"This model does not support image input."}}`},
		{"Bedrock", 400, `{"message":"This model doesn't support the image field. Remove image and try again."}`},
		{"Volcengine", 400, `{"error":{"code":"InvalidParameter","message":"Model do not support image input. Request id: 0217"}}`},
		{"Zhipu", 400, `{"error":{"code":"1210","message":"messages.content.type 参数非法，取值范围 ['text']"}}`},
		{"gateways with a list", 400, `{"error":{"message":"messages.content.type is invalid, allowed values: ['text']"}}`},
		{"DashScope", 400, `{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Unexpected item type in content.","type":"invalid_request_error"}}`},
		{"mlx-lm", 400, `{"error":"Only 'text' content type is supported."}`},
		{"gateways", 400, `{"error":{"message":"The model glm-5 is not a vision capable model"}}`},
		{"gateways, vision", 400, `{"error":{"message":"\"llama3\" does not support vision"}}`},
		{"gateways, all", 400, `{"error":{"message":"Multimodal content is not supported by this endpoint"}}`},
		{"gateways, only text", 415, `{"error":{"message":"this model only supports text input"}}`},
	} {
		e := responseError(&http.Response{StatusCode: c.status, Header: http.Header{}}, []byte(c.body))
		require.True(t, e.NoImages, "%s: %v", c.name, e)
	}
	// The same within a stream.
	require.True(t, asModelError(against(t, sends(events(`{"error":{"message":"image input is not supported","code":500}}`))).err).NoImages)
}

// Other refusals are none of images as such, even if they speak of one.
func TestFault_A_ImagesNotRefused(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
	}{
		{400, `{"error":{"message":"You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].","code":"invalid_image_format"}}`},
		{400, `{"error":{"message":"The image data you provided does not represent a valid image. Please check your input and try again."}}`},
		{400, `{"error":{"message":"This model does not support image formats other than PNG"}}`},
		{400, `{"error":{"message":"We do not support image URLs: send base64 data"}}`},
		{400, `{"error":{"message":"image URLs are not currently supported, please use base64 encoded data instead"}}`},
		{400, `{"error":{"message":"At most 10 images may be provided in one request"}}`},
		{400, `{"error":{"message":"messages.0.content.1.image.source.base64.data: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"}}`},
		{400, `{"error":{"message":"Could not process image"}}`},
		{400, `{"error":{"message":"tool_choice must be a string"}}`},
		{404, `{"error":{"message":"No endpoints found that support tool use"}}`},
		{404, `{"error":{"message":"The model gpt-vision does not exist"}}`},
		{429, `{"error":{"message":"Rate limit: image input is not available on the free tier"}}`},
		{401, `{"error":{"message":"your key does not support images"}}`},
		{400, `{"error":{"message":"max_tokens is too large"}}`},
		{500, `{"error":{"message":"internal error"}}`},
	} {
		e := responseError(&http.Response{StatusCode: c.status, Header: http.Header{}}, []byte(c.body))
		require.False(t, e.NoImages, "%v", e)
	}
	require.Equal(t, agent.ModelUnknown, responseError(&http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}}, []byte(`{"error":{"message":"No endpoints found that support image input","code":404}}`)).Code)
}
