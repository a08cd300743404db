"""Masking rules: what viewers do not see of messages. Everybody may read the rules."""

from __future__ import annotations

from txnconsole.access.masking_rules import add_masking_rule, delete_masking_rule
from txnconsole.access.models import MaskingRule as StoredRule
from txnconsole.access.roles import Permission
from txnconsole.api.endpoint import AccessEndpoint
from txnconsole.api.operation import Call, NoBody, NoQuery, Reply, Shape, operation
from txnconsole.api.paging import page_by_number
from txnconsole.api.structs.fields import PageQuery
from txnconsole.api.structs.masking import CreateMaskingRule, MaskingRule, MaskingRulePage


class MaskingRules(AccessEndpoint):
    @operation(
        "listMaskingRules",
        Permission.OPERATION_READ,
        Shape(query=PageQuery, answer=MaskingRulePage),
        summary="List masking rules",
    )
    def get(self, call: Call[None, PageQuery]) -> MaskingRulePage:
        """Oldest first. All rules that match a topic apply to its messages, in this order."""
        page, next_cursor = page_by_number(StoredRule.objects.all(), call.query, by="id")
        return MaskingRulePage(
            items=[MaskingRule.of(each) for each in page],
            next_cursor=next_cursor,
        )

    @operation(
        "createMaskingRule",
        Permission.ACCESS_MANAGE,
        Shape(keyed=True, body=CreateMaskingRule, answer=MaskingRule, statuses=(201,)),
        summary="Mask something for viewers",
    )
    def post(self, call: Call[CreateMaskingRule, NoQuery]) -> Reply:
        """It applies from now on to every message of the topics, including old ones. What is stored
        stays as it is; consumers, operators and administrators see all of it."""
        body = call.body
        rule = add_masking_rule(
            self.actor(), topics=body.topics, part=body.part, name=body.name, effect=body.effect
        )
        return Reply(MaskingRule.of(rule), 201)


class OneMaskingRule(AccessEndpoint):
    @operation(
        "deleteMaskingRule",
        Permission.ACCESS_MANAGE,
        Shape(keyed=True, statuses=(204,)),
        summary="Delete a masking rule",
    )
    def delete(self, call: Call[NoBody, NoQuery]) -> None:
        """Viewers can see again what it has hidden."""
        delete_masking_rule(self.actor(), self.kwargs["rule_id"])
