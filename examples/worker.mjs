// A worker in JavaScript, over HTTP, with nothing but Node 18 or later. The same in Python: worker.py.
//
//     node examples/worker.mjs http://127.0.0.1:8420
//
// It runs two handlers, `shout` and `nap`, one task at a time. A timer keeps the lease of what runs. While the server is away
// it asks again every second. With FERRYMAN_TOKEN set, it shows that token.

const url = process.argv[2].replace(/\/$/, "");
const headers = { "Content-Type": "application/json" };
if (process.env.FERRYMAN_TOKEN) headers.Authorization = `Bearer ${process.env.FERRYMAN_TOKEN}`;

// The server said no; asking again would not help.
class Refused extends Error {}

// Sends a request until it is answered. All of the protocol may be repeated: ends are fenced, and claims say what is held.
async function post(path, body) {
  for (;;) {
    try {
      const answer = await fetch(`${url}/v1/worker${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      const told = await answer.json();
      if (answer.ok) return told;
      if (!told.retryable) throw new Refused(told.code);
    } catch (error) {
      if (error instanceof Refused) throw error;
      console.log("no server:", error.message);
    }
    await new Promise((wake) => setTimeout(wake, 1000));
  }
}

const handlers = {
  shout({ text }) {
    if (text === undefined) throw new Error("there is no text to shout");
    return text.toUpperCase();
  },
  async nap({ seconds }) {
    console.log("napping");
    await new Promise((wake) => setTimeout(wake, seconds * 1000));
    return seconds;
  },
};

async function run(worker, task, beatSeconds) {
  const claim = { worker, id: task.id, epoch: task.epoch };
  const held = [{ id: task.id, epoch: task.epoch }];
  const beat = () => post("/heartbeat", { worker, held }).catch((error) => console.log("no heartbeat:", error.message));
  const keeping = setInterval(beat, beatSeconds * 1000);
  try {
    const result = await handlers[task.name](task.payload);
    await post("/complete", { ...claim, result });
  } catch (error) {
    if (error instanceof Refused) throw error;
    await post("/fail", { ...claim, reason: `${error.name}: ${error.message}` });
  } finally {
    clearInterval(keeping);
  }
}

async function work() {
  const greeted = await post("", { handlers: Object.keys(handlers), host: "example", pid: process.pid, version: "1" });
  const worker = greeted.worker;
  console.log("ready");
  for (;;) {
    // One task at a time: between two tasks nothing is held, and what a lost answer left behind is handed back.
    const { tasks } = await post("/claim", { worker, limit: 1, wait: 30, holds: [] });
    for (const task of tasks) {
      try {
        await run(worker, task, greeted.beat_seconds);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        console.log("lost", task.id, error.message); // somebody else has it, or it has ended
      }
    }
  }
}

for (;;) {
  try {
    await work();
  } catch (error) {
    if (error.message !== "WORKER_UNKNOWN") throw error;
    // Forgotten after a long silence: say hello again.
  }
}
