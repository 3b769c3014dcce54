#!/usr/bin/env node
// Executes the binary of this platform, which npm has installed as an optional dependency.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import process from 'node:process';

const name = `@rejoin/server-${process.platform}-${process.arch}`;

function binary() {
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/rejoin`);
  } catch {
    console.error(
      `error: the package ${name}, with the binary of this platform, is not installed. ` +
        'Install `rejoin` again with optional dependencies (without --omit=optional); ' +
        'for a platform without a package, build Rejoin from its sources.',
    );
    process.exit(1);
  }
}

const child = spawn(binary(), process.argv.slice(2), { stdio: 'inherit' });

// A terminal sends Ctrl-C to the child, too; a signal to this process alone is passed on.
process.on('SIGINT', () => {
  if (!process.stdin.isTTY) child.kill('SIGINT');
});
for (const signal of ['SIGTERM', 'SIGHUP', 'SIGQUIT']) process.on(signal, () => child.kill(signal));

child.on('error', (error) => {
  console.error(`error: the binary of ${name} can't be executed: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code);
  // Ends as the child did, so that a shell sees the signal.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
