-- Loses the placements of workspaces: move all of them to the directory first.
drop trigger placed_users on kb.users;
drop trigger placed_members on kb.project_members;
drop trigger placed_projects on kb.projects;
drop schema cells cascade;
