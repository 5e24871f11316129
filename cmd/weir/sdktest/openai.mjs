// Calls a sidecar with the official OpenAI SDK, once for each thing that may
// happen: the prompt tells the provider behind it what to do. Prints what came
// as one JSON object.
import OpenAI from "openai";

const [baseURL] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "client-key" });
const got = {};

// A prompt that makes trouble has a route of its own, so that it troubles no
// other.
const trouble = ["rate", "quota", "auth", "invalid", "overloaded", "hidden", "reset", "late error", "breaks", "silent"];
const route = (prompt, stream) => (trouble.includes(prompt) ? `route-${prompt.replace(" ", "-")}${stream ? "-streamed" : ""}` : "route");
const ask = (prompt, more) => ({ model: route(prompt, more?.stream), messages: [{ role: "user", content: prompt }], max_tokens: 50, ...more });
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } } }];

// attempt records what f returns, or which of the SDK's errors it throws.
async function attempt(name, f) {
  try {
    got[name] = { ok: await f() };
  } catch (e) {
    const kind = Object.keys(OpenAI).find((k) => OpenAI[k] === e.constructor) ?? e.constructor.name;
    got[name] = {
      error: kind,
      is_api_error: e instanceof OpenAI.APIError,
      status: e.status,
      code: e.code,
      type: e.type,
      message: e.message,
      request_id: e.requestID,
      retry_after: e.headers?.get("retry-after"),
      class: e.error?.weir?.class,
    };
  }
}

async function collect(stream) {
  let text = "";
  let args = "";
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    args += chunk.choices[0]?.delta?.tool_calls?.[0]?.function?.arguments ?? "";
  }
  return text + args;
}

await attempt("plain", async () => (await client.chat.completions.create(ask("plain"))).choices[0].message.content);
await attempt("stream", async () => collect(await client.chat.completions.create(ask("stream", { stream: true }))));
await attempt("tools", async () => (await client.chat.completions.create(ask("tools", { tools }))).choices[0].message.tool_calls[0].function.arguments);
await attempt("tools streamed", async () => collect(await client.chat.completions.create(ask("tools", { tools, stream: true }))));
await attempt("embeddings", async () => (await client.embeddings.create({ model: "route", input: "embed", encoding_format: "float" })).data[0].embedding.length);
await attempt("responses", async () => (await client.responses.create({ model: "route", input: "plain" })).output_text);
await attempt("responses streamed", async () => {
  let text = "";
  for await (const event of await client.responses.create({ model: "route", input: "stream", stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  return text;
});
await attempt("file", async () => (await client.files.create({ purpose: "batch", file: new File(["hello"], "a.jsonl") }, { headers: { "X-Weir-Route": "route" } })).id);
await attempt("models", async () => (await client.models.list()).data.map((m) => m.id).join());

for (const name of ["rate", "quota", "auth", "invalid", "overloaded", "hidden", "reset"]) {
  await attempt(name, () => client.chat.completions.create(ask(name)));
  await attempt(name + " streamed", async () => collect(await client.chat.completions.create(ask(name, { stream: true }))));
}
await attempt("missing", () => client.chat.completions.create(ask("plain", { model: "no-such-route" })));
await attempt("late error", async () => collect(await client.chat.completions.create(ask("late error", { stream: true }))));
await attempt("breaks", async () => collect(await client.chat.completions.create(ask("breaks", { stream: true }))));
await attempt("responses break", async () => {
  for await (const event of await client.responses.create({ model: route("breaks", true), input: "breaks", stream: true })) void event;
});
await attempt("abort", async () => {
  const stream = await client.chat.completions.create(ask("hangs", { stream: true }));
  for await (const chunk of stream) {
    void chunk;
    stream.controller.abort();
  }
  return "aborted";
});
await attempt("timeout", () => client.chat.completions.create(ask("silent"), { timeout: 300, maxRetries: 0 }));

console.log(JSON.stringify(got));
