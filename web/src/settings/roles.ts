// The roles of a workspace's members, and what they allow.
import type { Schemas } from '../api/http';
import { t } from '../ui/language';

export type Role = Schemas['RoleName'];

export const ROLES: Record<Role, string> = {
  owner: t('Full access, including members'),
  member: t('Chats with agents'),
  viewer: t('Read-only access'),
  operator: t('Sets up agents, has no conversations'),
  service: t('A program'),
};

const NAMES: Record<Role, string> = {
  owner: t('owner'),
  member: t('member'),
  viewer: t('viewer'),
  operator: t('operator'),
  service: t('service'),
};

/** What a role is called. */
export const roleName = (role: string): string => NAMES[role as Role] ?? role;
