drop schema stream cascade;
