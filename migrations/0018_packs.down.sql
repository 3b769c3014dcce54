drop table kb.template_assignments;
drop table kb.template_packs;
