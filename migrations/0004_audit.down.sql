-- Loses the audit log.
drop function audit.append(uuid, text, text, text, text, jsonb);
drop table audit.entries;
drop function audit.refuse();
drop schema audit;
