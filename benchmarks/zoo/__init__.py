"""Compare Fighter with other forecasters on the tables of the zoo, which development uses."""
