// A conversation as a Markdown file.
import type { TranscriptView } from '../stream';

export function asMarkdown(title: string, { items }: Pick<TranscriptView, 'items'>): string {
  const parts = items.map((item) =>
    item.type === 'message'
      ? `## You\n\n${item.message.content.trim()}`
      : `## ${item.turn.agent ?? 'Answer'}\n\n${item.turn.text.trim() || `_${item.turn.status}_`}`,
  );
  return `${[`# ${title || 'Chat'}`, ...parts].join('\n\n')}\n`;
}
