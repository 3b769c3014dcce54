// Builds `dist`: the two entries, and the types.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = join(dirname(fileURLToPath(import.meta.url)), '..');
rmSync(join(here, 'dist'), { recursive: true, force: true });
await build({
  absWorkingDir: here,
  entryPoints: ['src/index.ts', 'src/react.ts'],
  outdir: 'dist',
  bundle: true,
  // Both entries take what they share from the same file.
  splitting: true,
  format: 'esm',
  target: 'es2022',
  sourcemap: true,
  external: ['react'],
});
const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');
execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: here, stdio: 'inherit' });
// Only if it differs: what is newer than the web app's build has it built again, and the server with it.
const license = readFileSync(join(here, '../../../LICENSE'), 'utf8');
const copy = join(here, 'LICENSE');
if (!existsSync(copy) || readFileSync(copy, 'utf8') !== license) writeFileSync(copy, license);
