"""Tests of reading straight from the brokers' databases."""
