// Packs what was built, beside the files themselves: the server sends the packed one to clients that accept it.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

const PACKED = /\.(html|js|css|svg|json|webmanifest)$/;

function files(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
}

let scripts = 0;
for (const path of files('dist').filter((path) => PACKED.test(path))) {
  const content = readFileSync(path);
  const packed = brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
  writeFileSync(`${path}.br`, packed);
  if (path.endsWith('.js')) scripts += packed.length;
}
console.log(`${Math.round(scripts / 1024)} KiB of packed script`);
