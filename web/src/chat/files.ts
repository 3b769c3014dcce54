// Embeds text files in a message, each in a fence under its name, and extracts them again to show them folded.
import { t } from '../ui/language';

/** Longest message that the API takes [characters], unless the deployment says otherwise; files are part of it. */
export const MESSAGE_MAX_CHARS = 100_000;

export interface TextFile {
  name: string;
  content: string;
}

/** A file's text. Fails with words for people where it has none, or too much of it. */
export async function readText(file: File): Promise<TextFile> {
  const name = file.name.replaceAll(/[`\n]/g, '_');
  const tooLong = () =>
    new Error(
      t('{name} is too long. A message can have at most {limit} characters, including its files.', {
        name,
        limit: MESSAGE_MAX_CHARS,
      }),
    );
  // No character takes more than four bytes.
  if (file.size > MESSAGE_MAX_CHARS * 4) throw tooLong();
  let content: string;
  try {
    content = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(t("{name} can't be attached. Attach images, PDF, audio or text files (UTF-8).", { name }));
  }
  if (content.includes('\0'))
    throw new Error(t("{name} can't be attached. Attach images, PDF, audio or text files.", { name }));
  if (content.length > MESSAGE_MAX_CHARS) throw tooLong();
  return { name, content };
}

/** A message with its files. Fails where that is more than the API takes. */
export function withFiles(words: string, files: readonly TextFile[]): string {
  const blocks = files.map(({ name, content }) => {
    const longest = Math.max(2, ...(content.match(/`+/g) ?? []).map((ticks) => ticks.length));
    const fence = '`'.repeat(longest + 1);
    return `File \`${name}\`:\n${fence}\n${content.replace(/\n$/, '')}\n${fence}`;
  });
  const message = [words, ...blocks].filter((piece) => piece !== '').join('\n\n');
  if (message.length > MESSAGE_MAX_CHARS) {
    throw new Error(
      t(
        'The message is too long: {count, plural, one {# character} other {# characters}}, including its files. The limit is {limit}.',
        { count: message.length, limit: MESSAGE_MAX_CHARS },
      ),
    );
  }
  return message;
}

/** The words of a message, and its files. */
export function splitFiles(message: string): { words: string; files: TextFile[] } {
  const files: TextFile[] = [];
  const words = message.replaceAll(
    /(?:^|\n\n)File `([^`\n]+)`:\n(`{3,})\n([\s\S]*?)\n\2(?=\n\n|$)/g,
    (_, name: string, __, content: string) => {
      files.push({ name, content });
      return '';
    },
  );
  return { words: words.trim(), files };
}
