// Fetches URLs with Node, one for each line of standard input, a JSON array of the proxy variables and a URL; says "done" after each.
// "http": with node:http and node:https. "fetch": with fetch, whose proxy is that of the environment, and whose list is read anew.
import http from "node:http";
import https from "node:https";
import { createInterface } from "node:readline";

const viaHttp = (settings, url) =>
  new Promise((done) => {
    const module = url.startsWith("https:") ? https : http;
    const agent = new module.Agent({ proxyEnv: settings });
    const request = module.get(url, { agent, timeout: 5000 }, (response) => response.resume().on("close", done));
    request.on("timeout", () => request.destroy()).on("error", done);
  });

const viaFetch = (settings, url) => {
  for (const name of ["no_proxy", "NO_PROXY"]) {
    if (name in settings) process.env[name] = settings[name];
    else delete process.env[name];
  }
  return fetch(url, { redirect: "manual", signal: AbortSignal.timeout(5000) });
};

const get = process.argv[2] === "fetch" ? viaFetch : viaHttp;
for await (const line of createInterface({ input: process.stdin })) {
  // a URL that Node refuses, a host that is not there: the recorder knows whether the proxy was asked
  await get(...JSON.parse(line)).catch(() => {});
  console.log("done");
}
process.exit(0);
