import{h as a}from"./chunk-RS3USLU3.js";import"./chunk-52NQCJG4.js";export{a as default};
