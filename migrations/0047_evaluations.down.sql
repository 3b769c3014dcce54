drop table kb.evaluations;
drop table kb.evaluation_cases;
drop table kb.evaluation_sets;
