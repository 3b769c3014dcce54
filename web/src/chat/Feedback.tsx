// Lets the reader rate an answer and change the rating. Ratings from earlier visits are not shown.
import { useState } from 'react';
import { api } from '../api/http';
import { ErrorNote } from '../ui/parts';

const CHOICES = [
  { helped: true, sign: '👍', name: 'Helpful' },
  { helped: false, sign: '👎', name: 'Not helpful' },
];

export function Feedback({ messageId }: { messageId: string }) {
  const [rating, setRating] = useState<boolean | null>(null);
  const [error, setError] = useState<unknown>(null);
  const rate = async (helped: boolean) => {
    setError(null);
    try {
      await api(`/api/messages/${messageId}/feedback`, { method: 'PUT', body: { helped } });
      setRating(helped);
    } catch (refusal) {
      setError(refusal);
    }
  };
  return (
    <>
      <span role="group" aria-label="Did this answer help?">
        {CHOICES.map(({ helped, sign, name }) => (
          <button
            key={name}
            type="button"
            className="plain small"
            aria-label={name}
            title={name}
            aria-pressed={rating === helped}
            onClick={() => void rate(helped)}
          >
            {sign}
          </button>
        ))}
      </span>
      {error ? <ErrorNote error={error} /> : null}
    </>
  );
}
