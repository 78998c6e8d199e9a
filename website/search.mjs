// node website/search.mjs SITE < QUERIES: the pages that a built site finds for each line, best first, as the site's own search ranks
// them. The worker that browsers run is run here: it gets a message, and answers with one (material/templates/assets, search worker).
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const [setup, ready, query, result] = [0, 1, 2, 3]; // SearchMessageType of mkdocs-material

const site = process.argv[2];
const workers = join(site, "assets/javascripts/workers");
const [name] = readdirSync(workers).filter((file) => file.endsWith(".js"));

let heard, answered;
const scope = { console, addEventListener: (_, listener) => (heard = listener), postMessage: (message) => answered(message) };
scope.self = scope.globalThis = scope;
vm.runInNewContext(readFileSync(join(workers, name), "utf8"), scope);

// the site's own script changes what is sent to a worker: this is the browser's side of it
class Worker {
  postMessage(message) {
    heard({ data: message });
  }
}
vm.runInNewContext(readFileSync(join(site, "assets/questions.js"), "utf8"), { Worker });
const worker = new Worker();

const ask = (type, data, expected) =>
  new Promise((resolve, reject) => {
    answered = (message) => (message.type === expected ? resolve(message.data) : reject(new Error(JSON.stringify(message))));
    worker.postMessage({ type, data });
  });

const index = JSON.parse(readFileSync(join(site, "search/search_index.json"), "utf8"));
await ask(setup, { ...index, options: { suggest: false } }, ready);
const found = {};
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const { items } = await ask(query, line, result);
  found[line] = items.slice(0, 10).map((sections) => sections[0].location.split("#")[0]);
}
console.log(JSON.stringify(found));
