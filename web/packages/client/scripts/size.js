// Prints what the core weighs: minified, and compressed as servers do. Fails where the README says less.
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const limitKb = Number(
  /under (\d+) KB, compressed/.exec(readFileSync(new URL('../README.md', import.meta.url), 'utf8'))?.[1],
);
for (const entry of ['src/index.ts', 'src/react.ts']) {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    external: ['react'],
    write: false,
  });
  const { length } = outputFiles[0].contents;
  const packed = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  console.log(`${entry}: ${length} B minified, ${packed} B gzip`);
  if (!(packed < limitKb * 1000)) throw new Error(`${entry} is larger than the ${limitKb} KB of the README`);
}
