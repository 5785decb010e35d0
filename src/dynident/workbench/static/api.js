// API: one key per tab, had once for the token in the address; events over a stream that is taken up again.
const PLACE = "dynident-key";
let key = sessionStorage.getItem(PLACE);

export class Refusal extends Error {
  constructor(status, facts) {
    super(facts.says ?? `The server answered ${status}.`);
    Object.assign(this, { status, facts });
  }
}

export async function connect() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  history.replaceState(null, "", location.pathname);
  if (token) {
    try {
      key = (await call("POST", "/api/session", { token })).key;
      sessionStorage.setItem(PLACE, key);
    } catch (error) {
      if (!key) throw error;
    }
  }
  if (!key) throw new Refusal(401, { says: "This page is not connected. Open the link that the terminal shows." });
}

async function asked(method, path, body, signal) {
  const headers = { Authorization: `Bearer ${key ?? ""}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, { says: "The server does not answer." });
  }
  if (answer.ok) return answer;
  let facts = {};
  try { facts = await answer.json(); } catch { /* no body */ }
  throw new Refusal(answer.status, facts);
}

export async function call(method, path, body) {
  return (await asked(method, path, body)).json();
}

// A head and columns of doubles, read in place.
export async function columns(path, body, signal) {
  const buffer = await (await asked("POST", path, body, signal)).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const data = [];
  for (let k = 0; k < head.columns; k++) data.push(new Float64Array(buffer, 4 + length + 8 * k * head.rows, head.rows));
  return { head, data };
}

export async function events(from, heard, gone) {
  let last = from;
  for (;;) {
    try {
      const answer = await fetch("/api/events", { headers: { Authorization: `Bearer ${key}`, "Last-Event-ID": String(last) } });
      if (!answer.ok) throw new Refusal(answer.status, {});
      gone(false);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          const id = /^id: (\d+)$/m.exec(part);
          const data = /^data: (.*)$/m.exec(part);
          if (id && data) { last = Number(id[1]); heard(JSON.parse(data[1])); }
        }
      }
    } catch (error) {
      if (error.status === 401) { gone("key"); return; }
    }
    gone("server");
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}
