-- The tools that were left out when an MCP server was last listed, and why (docs/MCP.md).

-- Tools and pages of its list that were left out, each with the reason: [{"tool": null | text, "reason": text}].
alter table kb.project_mcp_servers add column left_out jsonb not null default '[]';
