// The long answer that the scripted model gives: paragraphs, lists, tables and code, with calls of a tool between them.

export const LAST_WORDS = 'That was the last of it.';

/** What models write. `nth` makes each different. */
const PIECES = [
  (nth) =>
    `Part ${nth} looks at **package ${nth}**, which others need at run time, and at \`lib${nth}.so\`, which it brings along.\n\n`,
  (nth) =>
    `## What part ${nth} found\n\nThe graph knows of ${nth} packages like it, and each of them has a reason to be there.\n\n`,
  (nth) =>
    `- one that depends on number ${nth}\n- one that only *recommends* it, and works without\n- one that [says so](https://example.com/${nth})\n\n`,
  (nth) =>
    `| package | needs | since |\n| --- | --- | --- |\n| a${nth} | libc6 | 12.${nth} |\n| b${nth} | libssl3 | 13.${nth} |\n\n`,
  (nth) => `\`\`\`sh\napt rdepends package-${nth} | sort --unique\napt show package-${nth}\n\`\`\`\n\n`,
];
const tokensOf = (text) => text.match(/\s*\S+\s*/g) ?? [];

/** So many tokens, in whole pieces as far as that goes. */
function prose(step, tokens) {
  let text = '';
  for (let nth = 0; tokensOf(text).length < tokens; nth++)
    text += PIECES[(step + nth) % PIECES.length](step * 100 + nth);
  return `${tokensOf(text).slice(0, tokens).join('').trimEnd()}\n\n`;
}

/** What the model replies: a step for each call; the last one answers. */
export function replies({ tokens, calls, paceMs }) {
  return (messages) => {
    const step = messages.filter((message) => message.role === 'assistant').length;
    const text = prose(step, Math.floor(tokens / (calls + 1)));
    if (step >= calls) return { text: `${text}${LAST_WORDS}`, paceMs };
    return { text, paceMs, tools: [{ name: 'search_entities', arguments: { query: `package ${step}`, limit: 3 } }] };
  };
}
