// Puts RapiDoc, the script of the API reference, beside its page: one file for browsers, which contains what it needs. It is fetched by itself, as
// its package would bring a hundred others that only its own build uses. Kept in node_modules until those are installed again.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';

const PACKAGE = 'rapidoc';
const VERSION = '9.3.8';
/** As `npm view rapidoc@9.3.8 dist.integrity` prints it, without its prefix. */
const SHA512 = 'eCYEbr1Xr8OJZvVCw8SXl9zBCRoLJbhNGuG5IZTHq/RWAOq/O4MafUCuFEyZHsrhLrlUcGZMa64pyhpib8fQKQ==';
const FOLDER = join('node_modules', '.rejoin');
const SCRIPT = join(FOLDER, `${PACKAGE}-${VERSION}.js`);

if (!existsSync(SCRIPT)) {
  mkdirSync(FOLDER, { recursive: true });
  execFileSync('npm', ['pack', '--silent', '--ignore-scripts', `${PACKAGE}@${VERSION}`], {
    cwd: FOLDER,
    stdio: 'pipe',
  });
  const archive = join(FOLDER, `${PACKAGE}-${VERSION}.tgz`);
  const digest = createHash('sha512').update(readFileSync(archive)).digest('base64');
  if (digest !== SHA512) throw new Error(`${archive} is not the package that was reviewed: its SHA-512 is ${digest}`);
  const inside = 'package/dist/rapidoc-min.js';
  execFileSync('tar', ['-xzf', `${PACKAGE}-${VERSION}.tgz`, inside], { cwd: FOLDER });
  renameSync(join(FOLDER, inside), SCRIPT);
}
copyFileSync(SCRIPT, join('dist', 'api-docs', 'rapidoc.js'));
