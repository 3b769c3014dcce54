// The question of a case in a table, which opens its row.
import { ChevronDown, ChevronRight } from 'lucide-react';

interface DisclosureProps {
  question: string;
  isOpen: boolean;
  onToggle: () => void;
}

export function Disclosure({ question, isOpen, onToggle }: DisclosureProps) {
  const Chevron = isOpen ? ChevronDown : ChevronRight;
  return (
    <button type="button" className="plain disclosure" aria-expanded={isOpen} onClick={onToggle}>
      <Chevron className="icon" />
      <span dir="auto" className={isOpen ? 'whole' : 'clamped'}>
        {question}
      </span>
    </button>
  );
}
