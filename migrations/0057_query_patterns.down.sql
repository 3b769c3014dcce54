-- Loses the queries that were learned.
drop table kb.query_patterns;
