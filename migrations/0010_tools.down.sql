-- Loses MCP servers and their approvals, settings of the web, and which products are installed.
drop table kb.products, kb.web_pages, kb.web_settings, kb.mcp_sessions, kb.mcp_tools, kb.project_mcp_servers;
