// Looks at a controller's page, and at reports, in a browser: node cases.mjs CASE...
// Each case prints one line, {"case", "fault", "figures"}. The environment says
// where everything is: CHROMIUM, URL of the controller, its TOKEN, the
// PROVIDER that can be told to refuse, and PICTURES, a folder for screenshots
// or nothing. For reports URL is where a run is shown, or REPORTS are files.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import net from "node:net";
import { chromium } from "playwright-core";

const { CHROMIUM, TOKEN, PROVIDER, PICTURES, REPORTS } = process.env;
const url = new URL(process.env.URL ?? "http://127.0.0.1:1/");
const patience = { timeout: 40000 }; // for a busy machine
const soon = 2000; // milliseconds in which a page must show what happened

// door lets the browser reach the controller until it is shut.
const door = { sockets: new Set(), shut: false };
const server = net.createServer((from) => {
  if (door.shut) return from.destroy();
  const to = net.connect(url.port, url.hostname);
  for (const [a, b] of [[from, to], [to, from]]) {
    door.sockets.add(a);
    a.on("error", () => b.destroy()).on("close", () => { b.destroy(); door.sockets.delete(a); });
    a.pipe(b);
  }
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const home = `http://127.0.0.1:${server.address().port}/`;

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });

// open opens a page and keeps what it complains of, and whom it asks.
async function open(address, { width = 1280, height = 900, dark = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", locale: "en-GB" });
  const page = await context.newPage();
  page.setDefaultTimeout(patience.timeout);
  page.complaints = [];
  page.asked = new Set();
  page.on("console", (m) => { if (["error", "warning"].includes(m.type())) page.complaints.push(m.text()); });
  page.on("pageerror", (e) => page.complaints.push(String(e)));
  page.on("request", (r) => page.asked.add(new URL(r.url()).origin));
  await page.goto(address);
  return page;
}

// visit opens the controller's page and waits until it is live.
async function visit({ path = "", ...how } = {}) {
  const page = await open(home + path, how);
  await page.waitForFunction(() => document.getElementById("link").textContent === "live" || location.search, null, patience);
  return page;
}

// leave closes a page that must not have complained.
async function leave(page) {
  assert.deepEqual(page.complaints, [], "the page complains");
  await page.context().close();
}

async function picture(page, name, fullPage = true) {
  if (PICTURES) await page.screenshot({ path: `${PICTURES}/${name}.png`, fullPage });
}

// serious is what axe-core finds serious on a page.
const axeSource = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
async function serious(page, where) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${where}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(" | ")}`);
}

// wide are the elements that stick out of the screen, but for what scrolls.
async function wide(page) {
  const all = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((e) => {
    for (let p = e.parentElement; p; p = p.parentElement) if (getComputedStyle(p).overflowX !== "visible") return false;
    return e.getBoundingClientRect().right > innerWidth + 0.5 && e.checkVisibility();
  }).map((e) => e.outerHTML.slice(0, 90)));
  if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) all.push("the page scrolls sideways");
  return all;
}

// saves holds that a report's buttons give files away.
async function saves(page) {
  for (const button of await page.locator(".downloads button").all()) {
    const saved = page.waitForEvent("download");
    await button.click();
    const text = readFileSync(await (await saved).path(), "utf8");
    assert.ok(text.length > 40, `${await button.textContent()} gives ${text}`);
  }
}

// ask asks the controller itself.
async function ask(path, body) {
  const answer = await fetch(new URL(path, url), body && {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", Authorization: `Bearer ${TOKEN}` },
  });
  assert.ok(answer.ok, `${path}: status ${answer.status}`);
  return answer.json();
}

const command = (command, more) => ask("api/v1/commands", { command, channel: "main", by: "test", why: "a test", ...more });

// refuse makes the provider refuse a channel's calls; "" lets them through.
async function refuse(channel, code) {
  const body = code && JSON.stringify({ error: { type: code, code, message: "refused" } });
  await fetch(`${PROVIDER}/${channel}`, { method: "PUT", body });
}

// state is the selector of a channel's state in the table.
const state = (channel) => `#channels tr:has(button:text-is("${channel}")) .state`;

async function until(page, channel, words) {
  await page.locator(state(channel)).filter({ hasText: words }).waitFor();
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const cases = {
  // A page of a healthy fleet complains of nothing and asks nobody else.
  async quiet() {
    const page = await visit();
    await page.getByText("All channels take calls.").waitFor();
    await until(page, "main", "takes calls");
    await page.locator("#agents tbody tr").nth(1).waitFor();
    await page.waitForFunction(() => Number(document.querySelector("#channels tbody tr td:nth-of-type(5)").textContent) > 0, null, patience);
    assert.deepEqual([...page.asked], [new URL(home).origin]);
    await leave(page);
  },

  // A breaker that opens is on the page within two seconds of the record that
  // opened it, in the middle of three times.
  async breaker() {
    const page = await visit({ path: "#/main" });
    const took = [];
    for (let i = 0; i < 3; i++) {
      await until(page, "main", "takes calls");
      const seen = page.evaluate((at) => new Promise((done) => {
        const cell = [...document.querySelectorAll("#channels tr")].find((r) => r.cells[0].textContent === at).querySelector(".state");
        new MutationObserver((_, o) => { if (cell.textContent.startsWith("stopped")) { o.disconnect(); done(Date.now()); } }).observe(cell, { childList: true, characterData: true, subtree: true });
      }), "main");
      const begun = Date.now();
      await refuse("main", "insufficient_quota");
      const at = await seen;
      const { decisions } = await ask("api/v1/decisions?channel=main&limit=50");
      const opened = decisions.find((d) => d.rule === "breaker.open");
      assert.ok(opened && opened.at_ns / 1e6 > begun - 1000, `no breaker opened: ${JSON.stringify(decisions[0])}`);
      took.push(at - opened.at_ns / 1e6);
      if (!i) {
        await page.locator("#verdict.bad").filter({ hasText: "main" }).waitFor();
        await page.locator("#troubles li").filter({ hasText: "quota exhausted" }).filter({ hasText: "by spare" }).waitFor();
        await page.locator("#routes tr").filter({ hasText: "degraded to L1" }).waitFor();
        await page.locator("#feed li.breaker").filter({ hasText: "main" }).first().waitFor();
        await page.setViewportSize({ width: 1120, height: 560 });
        await page.evaluate(() => scrollTo(0, 0));
        await picture(page, "page-trouble", false);
        await page.setViewportSize({ width: 1280, height: 900 });
      }
      await refuse("main", "");
      await command("force_breaker", { value: 0 });
    }
    took.sort((a, b) => a - b);
    assert.ok(took[1] <= soon, `shown after ${took} ms`);
    await leave(page);
    return { shown_ms: took[1] };
  },

  // A moment that is over shows as it was, with the reason, and not later.
  async past() {
    await command("pause", { for: "10m", why: "only for a moment" });
    await sleep(1200); // a moment is named in whole seconds
    const then = Math.floor(Date.now() / 1000);
    await sleep(1200);
    await command("resume", { why: "it was over" });
    const page = await visit({ path: "#/main" });
    await until(page, "main", "takes calls");
    const local = new Date((then - new Date().getTimezoneOffset() * 60) * 1000).toISOString().slice(0, 19);
    await page.locator("#then").fill(local);
    await until(page, "main", "held for 10 min");
    await page.locator("#feed li").filter({ hasText: "only for a moment" }).first().waitFor();
    assert.equal(await page.locator("#feed li").filter({ hasText: "it was over" }).count(), 0, "what came later is shown");
    assert.ok(page.url().includes(`?at=${then}`), "the address does not name the moment");
    assert.ok(await page.locator("#actions").isHidden(), "orders are offered for a moment that is over");
    await page.getByRole("button", { name: "back to now" }).click();
    await until(page, "main", "takes calls");
    await page.locator("#feed li").filter({ hasText: "it was over" }).first().waitFor();
    await leave(page);
  },

  // An order needs who, why and the token, and appears in the feed.
  async order() {
    const page = await visit();
    await page.getByRole("button", { name: "main", exact: true }).click();
    const order = async (what, fill) => {
      await page.locator("#actions").getByRole("button", { name: what, exact: true }).click();
      for (const [label, text] of Object.entries(fill)) await page.locator("#order").getByLabel(label, { exact: true }).fill(text);
      await page.getByRole("button", { name: "give the order" }).click();
    };
    const why = `<b>disk</b> is being changed ${Date.now()}`; // shown as it was written
    await order("pause", { for: "5m", why, who: "somebody", token: "wrong" });
    await page.locator("#order-fault").filter({ hasText: "token" }).waitFor();
    assert.equal((await ask("api/v1/decisions?channel=main")).decisions.filter((d) => d.reason.includes(why)).length, 0, "an order without the token counted");
    await page.locator("#order").getByLabel("token", { exact: true }).fill(TOKEN);
    await page.getByRole("button", { name: "give the order" }).click();
    await page.locator("#order").waitFor({ state: "hidden" });
    await page.locator("#feed li").filter({ hasText: why }).first().waitFor();
    await until(page, "main", "held for");
    await order("resume", { why: "done", who: "somebody" });
    await until(page, "main", "takes calls");
    assert.ok(page.complaints.every((c) => c.includes("401")), `the page complains: ${page.complaints}`);
    await page.context().close();
  },

  // A parameter is changed from the page, is watched, and stands in the history.
  async parameters() {
    const page = await visit();
    await page.getByRole("button", { name: "change a parameter" }).click();
    const dialog = page.locator("#order");
    await dialog.getByLabel("parameter").selectOption("plateau");
    assert.ok(Number(await dialog.locator("#order-value").inputValue()) > 1e9, "the value in force is not offered");
    const why = `calmer ${Date.now()}`;
    await dialog.locator("#order-value").fill("9000000000");
    for (const [label, text] of Object.entries({ why, who: "somebody", token: TOKEN })) await dialog.getByLabel(label, { exact: true }).fill(text);
    await dialog.getByRole("button", { name: "give the order" }).click();
    await dialog.waitFor({ state: "hidden" });
    await page.locator("#params-feed li").filter({ hasText: why }).first().waitFor();
    await page.locator("#params-about").filter({ hasText: "Watched for" }).waitFor();
    await page.getByText("all parameters").click();
    await page.locator("#params tr").filter({ hasText: "plateau" }).filter({ hasText: "9 s" }).waitFor();
    await leave(page);
  },

  // Everything that can be operated is reached by Tab, shows that it is, and
  // works by Enter.
  async keyboard() {
    const page = await visit({ path: "#/main" });
    await until(page, "main", "takes calls");
    await page.locator("#charts canvas").first().waitFor();
    const marked = await page.evaluate(() => {
      const all = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled);
      all.forEach((e, i) => { e.dataset.tab = i; });
      return all.length;
    });
    const reached = new Set(), unseen = [];
    for (let i = 0; i < marked * 3; i++) { // a date has several parts
      await page.keyboard.press("Tab");
      const [tab, shown, what] = await page.evaluate(() => {
        const e = document.activeElement, s = getComputedStyle(e), box = e.getBoundingClientRect();
        return [e.dataset.tab, (s.outlineStyle !== "none" || s.boxShadow !== "none") && box.bottom > 0 && box.top < innerHeight, e.outerHTML.slice(0, 90)];
      });
      if (tab === undefined) { if (reached.size === marked) break; continue; }
      reached.add(tab);
      if (!shown) unseen.push(what);
    }
    const missed = await page.evaluate((got) => [...document.querySelectorAll("[data-tab]")].filter((e) => !got.includes(e.dataset.tab)).map((e) => e.outerHTML.slice(0, 90)), [...reached]);
    assert.deepEqual(missed, [], "Tab does not reach");
    assert.deepEqual([...new Set(unseen)], [], "focus is not seen");
    await page.getByRole("button", { name: "spare", exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.locator("#h-one").filter({ hasText: "spare" }).waitFor();
    await page.getByRole("button", { name: "pause", exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.locator("#order").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#order").waitFor({ state: "hidden" });
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "pause", "focus does not come back from the dialog");
    await leave(page);
    return { stops: marked };
  },

  // axe-core finds nothing serious, in light and in dark, in each state.
  async axe() {
    const found = [];
    const check = async (page, where) => found.push(...await serious(page, where));
    await command("pause", { channel: "spare", for: "10m" });
    for (const dark of [false, true]) {
      const page = await visit({ path: "#/main", dark });
      await until(page, "spare", "held");
      await page.locator("#charts canvas").first().waitFor();
      await check(page, dark ? "dark" : "light");
      await page.locator("#actions button").first().click();
      await check(page, dark ? "dark dialog" : "light dialog");
      await leave(page);
    }
    await command("resume", { channel: "spare" });
    assert.deepEqual(found, []);
  },

  // Nothing of it is wider than a phone, and what is wrong stands first.
  async phone() {
    const page = await visit({ path: "#/main", width: 375, height: 740 });
    await until(page, "main", "takes calls");
    await page.locator("#charts canvas").first().waitFor();
    assert.deepEqual(await wide(page), [], "wider than the screen");
    assert.ok(await page.locator("#verdict").evaluate((e) => e.getBoundingClientRect().bottom < innerHeight / 2), "the verdict is not on the first screen");
    await leave(page);
  },

  // A large fleet is shown whole and stays live. What that costs is measured
  // while a channel's charts are open.
  async large() {
    const begun = Date.now();
    const page = await visit({ path: "#/channel-007" });
    await page.waitForFunction(() => document.querySelectorAll("#channels tbody tr").length === 200 && /1,000 agents/.test(document.getElementById("controller").textContent), null, patience)
      .catch(async () => assert.fail(`shown are ${await page.locator("#channels tbody tr").count()} channels, ${await page.locator("#controller").textContent()}`));
    const loaded = Date.now() - begun;
    await page.locator("#charts canvas").first().waitFor();
    await page.locator("#agents-more").filter({ hasText: "900 more" }).waitFor();
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Performance.enable");
    const measure = async () => Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value]));
    await page.evaluate(() => {
      window.tellings = new Set();
      new MutationObserver(() => window.tellings.add(document.getElementById("controller").textContent)).observe(document.getElementById("controller"), { childList: true, characterData: true, subtree: true });
    });
    const a = await measure();
    await sleep(Number(process.env.SECONDS) * 1000);
    const b = await measure();
    const told = await page.evaluate(() => window.tellings.size);
    const span = b.Timestamp - a.Timestamp;
    assert.ok(told >= span / 3, `told ${told} times in ${span} s`);
    assert.equal(await page.locator("#link").textContent(), "live");
    await leave(page);
    const each = (name) => Math.round(((b[name] - a[name]) / span) * 1e4) / 10;
    return { load_ms: loaded, script_ms_per_s: each("ScriptDuration"), task_ms_per_s: each("TaskDuration"), layout_ms_per_s: each("LayoutDuration"), style_ms_per_s: each("RecalcStyleDuration"), layouts_per_s: each("LayoutCount") / 1000, styles_per_s: each("RecalcStyleCount") / 1000, told };
  },

  // The page of a run that goes on shows both halves as they are told, keeps what
  // somebody looks at closer, and becomes the report. TELL makes it go on.
  async side() {
    const page = await open(home, { width: 375, height: 740 });
    const tell = (what) => fetch(new URL(what, process.env.TELL), { method: "POST" });
    const canvases = () => page.locator(".cell canvas").count();
    await page.locator("#now").filter({ hasText: "uncontrolled" }).waitFor();
    const rows = await canvases();
    await tell("half");
    await page.locator("#now").filter({ hasText: "with Weir" }).waitFor();
    await page.locator(".card .phase0 dd").first().filter({ hasText: /[0-9]/ }).waitFor();
    assert.deepEqual(await wide(page), [], "wider than the screen");
    await tell("over");
    await page.locator(".verdict.good").waitFor();
    await page.locator(".card .phase1 dd").first().filter({ hasText: /[0-9]/ }).waitFor();
    assert.equal(await canvases(), rows, "charts are missing or twice");
    assert.ok(!(await page.evaluate(() => document.documentElement.hasAttribute("data-live"))), "it still asks");
    assert.deepEqual([...page.asked], [new URL(home).origin]);
    assert.deepEqual([...await serious(page, "at its end"), ...await wide(page)], []);
    await saves(page);
    await leave(page);
  },

  // Each report asks nobody, is right on a phone, in light and dark and on
  // paper, and gives its data away.
  async reports() {
    const found = [];
    for (const file of REPORTS.split("\n")) {
      for (const [dark, width] of [[false, 1280], [true, 375]]) {
        const page = await open("file://" + file, { width, dark });
        const where = `${file} at ${width}`;
        await page.locator("canvas").first().waitFor();
        found.push(...(await wide(page)).map((w) => `${where}: sticks out: ${w}`));
        if (dark) {
          found.push(...await serious(page, where));
          await saves(page);
        } else {
          await page.emulateMedia({ media: "print" });
          assert.ok((await page.pdf({ format: "A4" })).length > 10000, `${where}: nothing on paper`);
        }
        assert.deepEqual([...page.asked], ["null"], "it asks somebody");
        await picture(page, `${file.split("/").at(-2)}-${width}`);
        await leave(page);
      }
    }
    assert.deepEqual(found, []);
  },

  // The pictures of the guides, while the 2064 incident is played in ninety
  // seconds: the cluster shrinks from the ninth to the sixty-fourth of them.
  async walk() {
    const begun = Date.now();
    const page = await visit({ path: "#/m2.7", width: 1120, height: 760 });
    const at = async (second, name, part) => {
      await sleep(Math.max(0, begun + second * 1000 - Date.now()));
      if (part) await page.locator(part).scrollIntoViewIfNeeded();
      await picture(page, name, false);
    };
    await at(45, "page-slow");
    await page.evaluate(() => document.getElementById("one").scrollIntoView());
    await at(84, "page-channel");
    const then = Math.floor(begun / 1000) + 64;
    await page.goto(`${home}?at=${then}#/m2.7`);
    await page.locator("#link.stale").filter({ hasText: "as it was at" }).waitFor();
    await sleep(1500);
    await at(0, "page-then");
    const phone = await visit({ path: "#/m2.7", width: 375, height: 740 });
    await sleep(2500);
    await picture(phone, "page-phone", false);
  },

  // A page whose controller is gone says that what it shows is old, and comes
  // back by itself.
  async stale() {
    const page = await visit();
    door.shut = true;
    for (const s of door.sockets) s.destroy();
    await page.locator("#link.stale").filter({ hasText: "what you see is old" }).waitFor();
    await sleep(300);
    door.shut = false;
    await page.waitForFunction(() => document.getElementById("link").textContent === "live", null, patience);
    await page.context().close();
  },
};

for (const name of process.argv.slice(2)) {
  let fault = "", figures = {};
  const begun = Date.now();
  try {
    figures = (await cases[name]()) ?? {};
  } catch (e) {
    fault = String(e.message ?? e);
  }
  console.log(JSON.stringify({ case: name, fault, figures: { ...figures, took_ms: Date.now() - begun } }));
}
await browser.close();
server.close();
for (const s of door.sockets) s.destroy();
