drop table kb.mcp_sessions;
drop table kb.mcp_tools;
drop table kb.project_mcp_servers;
