drop table kb.web_pages;
drop table kb.web_settings;
