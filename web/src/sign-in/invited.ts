// Keeps the invitation that was opened in this tab until it is accepted or declined: through reloads, and while its user signs in at the identity
// provider. Other tabs don't see it.

const KEY = 'rejoin.invitation';

export interface Invited {
  token: string;
  /** Where it leads; unknown until the server has shown the offer. */
  to?: { projectId: string; project: string };
}

let kept: Invited | null = stored();

function stored(): Invited | null {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
    return found !== null && typeof found === 'object' && 'token' in found ? (found as Invited) : null;
  } catch {
    // The storage is blocked: only this page remembers.
    return null;
  }
}

export function invitation(): Invited | null {
  return kept;
}

/** Keeps an invitation instead of the one before; null: none. */
export function keepInvitation(invited: Invited | null): void {
  kept = invited;
  try {
    if (invited === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, JSON.stringify(invited));
  } catch {
    // As above.
  }
}
