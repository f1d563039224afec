// Adding photos: where they are, what is embedded with which backbone, and how far it is.
import { api } from "../shared/api.js";
import { announce } from "../shared/bar.js";
import { h, renew } from "../shared/dom.js";
import { planCard } from "./plan.js";
import { isRunning, progressCard } from "./progress.js";
import { whereCard } from "./where.js";

const main = document.querySelector("#main"), PERIOD = 700;

/** Draw the page; `problems` are sentences about caches that cannot be read. */
export async function addPhotos(problems = []) {
  const about = await api("photos"), part = name => h("div", { "data-part": name });
  const [embedding, where, plan] = ["embedding", "where", "plan"].map(part);
  const back = about.caches ? h("a", { class: "btn", href: "/data" }, "Back to the data") : null;
  const intro = h("p", { hidden: true }, `There is no data set below ${about.root} yet. Photos become one in three steps: name them, choose a backbone, wait.`);
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Add photos"), h("span", { class: "grow" }), back), intro, ...problems.map(text => h("p", { class: "wrong" }, text)), embedding, where, plan);

  function choose(folder) {
    renew(plan, planCard(about, folder, found => { plan.replaceChildren(); show(found); watch(); }));
    plan.scrollIntoView({ block: "nearest" });
  }

  function show(found) {
    renew(embedding, ...(found ? [progressCard(found, act)] : []));
    intro.hidden = Boolean(about.caches || found);
    where.hidden = plan.hidden = isRunning(found);
    main.dataset.photos = found?.state ?? "none";
  }

  async function act(name) {
    show((await api(`photos-${name}`, {})).embedding);
    watch();
  }

  let watching = false;
  async function watch() {
    if (watching) return;
    watching = true;
    try {
      for (let last = null; ;) {
        const { embedding: found } = await api("photos-state");
        show(found);
        if (found && found.state !== last) announce(SAID[found.state]);
        if (!isRunning(found)) break;
        last = found.state;
        await new Promise(resolve => setTimeout(resolve, PERIOD));
      }
    } catch (error) { main.dataset.photos = "unreachable"; throw error; } finally { watching = false; }
  }

  where.append(whereCard(about, choose));
  show(about.embedding);
  main.dataset.state = "ready";
  if (isRunning(about.embedding)) await watch();
}

const SAID = {
  starting: "The embedding starts.", listing: "The photos are listed.", loading: "The backbone is loaded.", embedding: "The photos are embedded.",
  done: "All photos are embedded.", stopped: "The embedding has stopped.", failed: "The embedding has failed.", lost: "The embedding has ended without a message.",
};
