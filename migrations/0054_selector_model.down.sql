-- Loses which model chooses agents for tasks.
alter table kb.routing drop column selector_model;
