-- Loses: users' accounts at MCP servers. Their tokens are not revoked.
drop table kb.mcp_consents, kb.mcp_accounts;
delete from queue.jobs where kind in ('mcp_consent', 'mcp_code', 'mcp_disconnect');
