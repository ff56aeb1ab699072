"""Runs for callers: what is asked for, what is given back, and how many at a time.

A run goes one way: `RunArgs` → a request (fetches and feeds by node) → the plan, from the cache → feeds
converted → admission → segments → results → `RunValues`. Nothing calls upwards.
"""
