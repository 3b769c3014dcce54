-- Loses how tokens are got for MCP servers: they are asked without one then.
alter table kb.project_mcp_servers drop column oauth;
