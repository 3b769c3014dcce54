// A piece of a message with its found words marked. The API gives plain text and the positions of the words.
import type { Schemas } from '../../api/http';

interface Piece {
  text: string;
  isFound: boolean;
}

function piecesOf({ text, marks }: Schemas['SnippetBody']): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  const take = (end: number, isFound: boolean) => {
    if (end > at) pieces.push({ text: text.slice(at, end), isFound });
    at = Math.max(at, end);
  };
  for (const { start, end } of marks) {
    take(start, false);
    take(end, true);
  }
  take(text.length, false);
  return pieces;
}

export function Snippet({ of }: { of: Schemas['SnippetBody'] }) {
  return (
    <span dir="auto" className="snippet">
      {piecesOf(of).map(({ text, isFound }, nth) => (isFound ? <mark key={nth}>{text}</mark> : text))}
    </span>
  );
}
