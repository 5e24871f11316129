// Calls a sidecar as an application does that uses the official SDK: nothing
// is changed but the base URL. Prints what came as one JSON object.
import OpenAI from "openai";

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "application-key" });
const request = { model, messages: [{ role: "user", content: "hello" }], max_tokens: 40 };

const plain = await client.chat.completions.create(request);

let streamed = "";
let chunks = 0;
let usage = null;
const stream = await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
for await (const chunk of stream) {
  chunks++;
  streamed += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}

const models = await client.models.list();

let refused = null;
try {
  await client.chat.completions.create({ ...request, model: "no-such-route" });
} catch (error) {
  refused = { status: error.status, code: error.code, type: error.type };
}

console.log(
  JSON.stringify({
    plain: plain.choices[0].message.content,
    plain_tokens: plain.usage.completion_tokens,
    streamed,
    chunks,
    streamed_tokens: usage?.completion_tokens ?? null,
    models: models.data.map((m) => m.id),
    refused,
  }),
);
