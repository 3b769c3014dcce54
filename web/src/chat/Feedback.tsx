// Lets the reader rate an answer and change the rating. Ratings from earlier visits are not shown.
import { ThumbsDown, ThumbsUp } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/http';
import { IconButton } from '../ui/Button';
import { ErrorNote } from '../ui/parts';

const CHOICES = [
  { helped: true, icon: ThumbsUp, name: 'Helpful' },
  { helped: false, icon: ThumbsDown, name: 'Not helpful' },
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
      <span role="group" aria-label="Did this answer help?" className="group">
        {CHOICES.map(({ helped, icon, name }) => (
          <IconButton
            key={name}
            icon={icon}
            label={name}
            aria-pressed={rating === helped}
            onClick={() => void rate(helped)}
          />
        ))}
      </span>
      {error ? <ErrorNote error={error} /> : null}
    </>
  );
}
