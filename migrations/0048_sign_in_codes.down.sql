-- Codes that nobody has used are lost; they are good for minutes only.
drop table kb.sign_in_codes;
