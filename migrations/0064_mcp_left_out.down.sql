alter table kb.project_mcp_servers drop column left_out;
