// A data directory in which `rejoin dev` has started before, with the demo's graph. In a copy of it the next one is ready in a second; from
// nothing, it needs ten.
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const KEPT = fileURLToPath(new URL('../../../.cache/dev-data/', import.meta.url));

/** An empty folder that the user who runs PostgreSQL for root may pass, too: its cluster is in it, not elsewhere. */
export function newFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'rejoin-web-'));
  chmodSync(folder, 0o711);
  return folder;
}

/**
 * Copies the directory that this binary has prepared into `folder`. Where there is none yet, `prepare` makes it in the folder that it gets.
 * Files of tests may do so at the same time: the first one's is kept.
 */
export async function copyPrepared(binary, folder, prepare) {
  const { size, mtimeMs } = statSync(binary);
  const name = `${size}-${mtimeMs}`;
  const kept = join(KEPT, name);
  if (!existsSync(kept)) {
    const fresh = newFolder();
    await prepare(fresh);
    // A cluster elsewhere can't be copied with its directory. Then each test starts from nothing.
    const copied = !existsSync(join(fresh, 'postgres', 'cluster-lives-at'));
    if (copied) keep(fresh, name);
    rmSync(fresh, { recursive: true, force: true });
    if (!copied) return;
  }
  copy(kept, folder);
}

function keep(folder, name) {
  mkdirSync(KEPT, { recursive: true });
  const mine = mkdtempSync(join(KEPT, 'new-'));
  copy(folder, mine);
  try {
    renameSync(mine, join(KEPT, name));
  } catch {
    rmSync(mine, { recursive: true, force: true });
  }
  // Of other binaries.
  for (const other of readdirSync(KEPT))
    if (other !== name && !other.startsWith('new-')) rmSync(join(KEPT, other), { recursive: true, force: true });
}

/** With owners and modes, which Node.js does not copy. */
function copy(from, to) {
  execFileSync('cp', ['--archive', '--reflink=auto', `${from}/.`, to]);
}
