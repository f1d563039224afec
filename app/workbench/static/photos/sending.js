// Sending photos to the server, which keeps them.
const TOKEN = document.querySelector('meta[name="frostbench-token"]').content, AT_ONCE = 3, MOST_ERRORS = 50;

/** Return the files of a drop with their paths, those in folders too; the entries must be taken before anything is awaited. */
export async function dropped(transfer) {
  const found = [...transfer.items].filter(({ kind }) => kind === "file").map(item => item.webkitGetAsEntry?.() ?? item.getAsFile());
  return (await Promise.all(found.map(one => (one instanceof File ? [{ file: one, path: one.name }] : filesOf(one))))).flat();
}

async function filesOf(entry) {
  if (entry.isFile) return [{ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path: entry.fullPath.replace(/^\/+/, "") }];
  const reader = entry.createReader(), inside = [];
  for (;;) {
    // A call returns some of the entries, and none at the end.
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) break;
    inside.push(...some);
  }
  return (await Promise.all(inside.map(filesOf))).flat();
}

/** Return the files of an input with their paths. */
export const chosen = input => [...input.files].map(file => ({ file, path: file.webkitRelativePath || file.name }));

const suffixOf = path => /\.[^./]+$/.exec(path.toLowerCase())?.[0] ?? "without an ending";

/** Divide files into those to send, those in no folder, and the endings of those that are no images. */
export function sorted(files, { suffixes, manifests }) {
  const send = [], loose = [], others = new Map();
  for (const one of files) {
    const name = one.path.split("/").at(-1);
    if (one.path.split("/").some(part => part.startsWith(".") || part === "__MACOSX")) continue;
    if (suffixOf(name) === ".zip" || manifests.includes(name)) send.push(one);
    else if (!suffixes.includes(suffixOf(name))) others.set(suffixOf(name), (others.get(suffixOf(name)) ?? 0) + 1);
    else (one.path.includes("/") ? send : loose).push(one);
  }
  // Beside a manifest, images need no folder.
  const isListed = send.some(({ path }) => manifests.includes(path));
  return { send: isListed ? [...send, ...loose] : send, loose: isListed ? [] : loose, others };
}

/** Take away the folder that all files are in, as long as those that are left are in folders too. */
export function unwrapped(files) {
  const parts = files.map(({ path }) => path.split("/")), first = parts[0]?.[0];
  if (!files.length || !parts.every(one => one.length > 2 && one[0] === first)) return files;
  return unwrapped(files.map(({ file, path }) => ({ file, path: path.slice(first.length + 1) })));
}

/** Return a name for a set of files: their common folder, or that of the first zip file. */
export function nameOf(files) {
  const first = files[0].path.split("/");
  return first.length > 1 ? first[0] : first[0].replace(/\.[^.]*$/, "");
}

/** Send files into a set; `onStep` is called with the number of those done. Returns { kept, notes, errors }. */
export async function send(set, files, onStep) {
  const waiting = [...files], notes = [], errors = [];
  let kept = 0, done = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (waiting.length && errors.length < MOST_ERRORS) {
      const reply = await sendOne(set, waiting.shift());
      if (reply.error) errors.push(reply.error);
      else { kept += reply.kept; notes.push(...reply.notes); }
      onStep(done += 1);
    }
  }));
  if (waiting.length) errors.push(`After ${MOST_ERRORS} errors, ${waiting.length.toLocaleString("en")} files were not sent.`);
  return { kept, notes, errors };
}

async function sendOne(set, { file, path }) {
  try {
    const reply = await fetch(`/frostbench/photos?${new URLSearchParams({ set, name: path })}`, { method: "POST", body: file, headers: { "x-frostbench-token": TOKEN } });
    return await reply.json();
  } catch { return { error: `${path}: the upload failed. Is "frostbench app" still running?` }; }
}
