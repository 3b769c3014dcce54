drop table kb.api_keys;
drop table kb.project_members;
drop table kb.users;
drop table kb.projects;
drop schema kb;
