// The roles of a workspace's members, and what they allow.
import type { Schemas } from '../api/http';

export type Role = Schemas['RoleName'];

export const ROLES: Record<Role, string> = {
  owner: 'Full access, including members',
  member: 'Chats with agents',
  viewer: 'Read-only access',
  operator: 'Sets up agents, has no conversations',
  service: 'A program',
};
