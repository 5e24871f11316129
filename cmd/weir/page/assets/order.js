// An operator's orders: each asks for who, why and the token before it is given.

import { $, put, make } from "./words.js";
import { page, order } from "./state.js";

const orders = [
  { text: "pause", command: "pause", about: "No new call starts until the time is over or you resume.", time: "10m" },
  { text: "resume", command: "resume", about: "Ends a pause, a hold and a breaker that was forced open." },
  { text: "set limit", command: "set_limit", about: "At most so many slots, whatever the law finds. Without a time it stays until you give it back.", value: 10, time: "" },
  { text: "give limit back", command: "set_limit", about: "The law decides alone again.", fixed: -1 },
  { text: "stop", command: "force_breaker", about: "Opens the breaker until you close it.", fixed: 1 },
  { text: "close breaker", command: "force_breaker", about: "Lets calls start again, from a small window.", fixed: 0 },
  { text: "release", command: "release", about: "Ends the hold that a provider's hint put on it." },
];

let acting = "";
let give = null; // what the dialog's button does

// show shows the orders for a channel.
export function show(channel) {
  if (acting === channel) return;
  acting = channel;
  $("actions").replaceChildren(...orders.map((o) => {
    const button = make("button", "", o.text);
    button.type = "button";
    button.addEventListener("click", () => open(o.text, channel));
    return button;
  }));
}

// open asks for what an order by its name needs.
export function open(name, channel) {
  const o = orders.find((one) => one.text === name);
  start(`${o.text}: ${channel}`, o.about, { value: o.value, time: o.time });
  give = () => order("api/v1/commands", { command: o.command, channel, value: o.fixed ?? Number($("order-value").value || 0),
    for: o.time === undefined ? "" : $("order-for").value.trim(), by: $("order-by").value, why: $("order-why").value });
}

// push asks for a parameter and its new value. It is watched for ten minutes
// and taken back by itself when answers become worse.
export function push(params, units) {
  start("change a parameter", "In force for all channels at once, watched for the time below, and taken back by itself if answers for the same demand fall by 2 % or waste grows by 1 %.", { value: "", time: "10m", names: Object.keys(params) });
  const shown = () => {
    const unit = units[$("order-name").value] || "";
    put($("order-unit"), unit ? `value in ${unit}` : "value");
    $("order-value").value = params[$("order-name").value];
  };
  $("order-name").onchange = shown;
  shown();
  give = () => order("api/v1/params", { name: "from the page", by: $("order-by").value, why: $("order-why").value, params: { [$("order-name").value]: Number($("order-value").value) },
    guard: { for_ns: nanoseconds($("order-for").value), goodput_ppm: -20000, waste_ppm: 10000 } });
}

// nanoseconds reads a time as 10m or 1h30m.
function nanoseconds(text) {
  const unit = { h: 3600e9, m: 60e9, s: 1e9 };
  return [...text.matchAll(/([0-9.]+)([hms])/g)].reduce((sum, [, n, u]) => sum + Number(n) * unit[u], 0);
}

function start(title, about, { value, time, names }) {
  put($("order-title"), title);
  put($("order-about"), about);
  put($("order-fault"), "");
  put($("order-unit"), "slots");
  $("order-value-label").hidden = value === undefined;
  $("order-value").required = value !== undefined;
  $("order-value").value = value ?? "";
  $("order-for-label").hidden = time === undefined;
  $("order-for").value = time ?? "";
  $("order-for").required = Boolean(names);
  $("order-name-label").hidden = !names;
  $("order-name").replaceChildren(...(names || []).map((n) => make("option", "", n)));
  $("order-token").value = page.token;
  $("order").showModal();
  (names ? $("order-name") : $("order-why")).focus();
}

$("order").querySelector("form").addEventListener("submit", async (event) => {
  if (event.submitter && event.submitter.value === "cancel") return;
  event.preventDefault();
  page.token = $("order-token").value.trim();
  try {
    $("order-do").disabled = true;
    await give();
    $("order").close();
  } catch (fault) {
    put($("order-fault"), String(fault.message || fault));
  } finally {
    $("order-do").disabled = false;
  }
});
