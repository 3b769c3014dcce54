-- Loses all secrets.
drop table kb.secrets;
