// The API reference: RapiDoc, which the build puts beside this file, in the colours that the reader prefers.
import './rapidoc.js';

const dark = matchMedia('(prefers-color-scheme: dark)');
const paint = () => document.querySelector('rapi-doc').setAttribute('theme', dark.matches ? 'dark' : 'light');
dark.addEventListener('change', paint);
paint();
